"""Processes of the rank's node that carry users' functions out, where threads of the rank gain too little."""
