"""Savepoints as the driver sees them: how a running query makes one, and how a query begins from one.

requests  savepoints that were asked for, in the coordinator's brain
api       ``query.savepoint`` and ``query.stop(savepoint=)``, in the user's thread
shape     what of a topology its checkpoints hang on, as rows of a manifest
fitting   what has changed since a savepoint was made, and whether that is meant
regroup   the state of a drained savepoint, dealt to the tasks of another plan
begin     puts a savepoint into a checkpoint that is empty, for the query to resume from
"""
