"""What rtrain.data knows of Arrow's arrays and readers: how many bytes they take, and which values they would change."""
