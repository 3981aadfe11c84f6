"""Writes two checkpoints into subdirectories of the run's directory and reports them in place if the run starts without a
checkpoint. A resumed run prints the checkpoint's name.
"""

import pathlib

from rtrain import train

before = train.get_checkpoint()
if before:
    with before.as_directory() as folder:
        print(f"began from {before.name}, epoch {(pathlib.Path(folder) / 'epoch').read_text()}", flush=True)
for epoch in range(0 if before else 2):
    place = pathlib.Path(train.get_context().get_run_path()) / "epochs" / str(epoch)
    place.mkdir(parents=True)
    (place / "epoch").write_text(str(epoch))
    train.report(
        {"epoch": epoch}, checkpoint=train.Checkpoint(str(place)), checkpoint_upload_mode=train.CheckpointUploadMode.NO_UPLOAD
    )
