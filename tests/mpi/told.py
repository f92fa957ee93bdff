"""Parses the output of clade --json under mpirun."""
import json


def event(line):
    """The event of a line, or None. mpirun of Open MPI 5 may insert a rank's standard error before it."""
    at = line.find('{"event"')
    return json.loads(line[at:]) if at >= 0 else None


def events(text):
    return [found for found in map(event, text.splitlines()) if found]
