"""The command line `hardwon`: parse, ask the API, print. It begins in `start`, before anything else is loaded."""
