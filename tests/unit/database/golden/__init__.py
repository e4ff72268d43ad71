"""What each vendor that is not executed here would be sent, kept beside the code for people to read."""
