"""Carries user functions out in processes on the rank's node, if the rank's threads gain too little."""
