"""What makes a release of this project; nothing here is part of one."""
