"""Watchers of folders, by inotify."""
from connect import Failure


def create(message, user):
    raise Failure("unimplemented", "later")


drain = remove = create


def stream(message, user, interval):
    raise Failure("unimplemented", "later")
