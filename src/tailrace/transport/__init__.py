"""How bytes move: in process, through the shared-memory ring of a node, over Unix sockets or TCP.

``wire`` has the byte layout, ``codec`` turns batches into bytes, ``handshake`` proves the secret, ``links`` moves
messages. Nothing here knows what an operator is.
"""
