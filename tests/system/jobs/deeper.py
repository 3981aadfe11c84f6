"""A run that begins from nothing puts two checkpoints deeper into its directory and reports them in their place; one that goes on says
from which."""

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
