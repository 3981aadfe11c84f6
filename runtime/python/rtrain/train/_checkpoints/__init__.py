"""Where the files of checkpoints and runs lie, how they get there and how they are read from anywhere.

`_run_directory` reads a run, `_uploads` takes reports whose files are brought in other ways, `_elsewhere` is a file system that rtrain cannot write."""
