"""Flows that conductors of TaskFlow make by the names of these functions."""

import os

from taskflow import task
from taskflow.patterns import linear_flow


class Note(task.Task):
    """Appends a line to a file: which flow, and what its posting and its book handed over."""

    def __init__(self, path, flow):
        super().__init__(name="note")
        self.path, self.flow = path, flow

    def execute(self, uuid, times):
        f = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            os.write(f, ("%s %s %d\n" % (self.flow, uuid, times)).encode())
        finally:
            os.close(f)


def note(path, flow):
    return linear_flow.Flow("note").add(Note(path, flow))
