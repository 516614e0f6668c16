"""A store that only the driver reaches, for a query's workers: a server on the driver, a store on each worker.

messages  what is said: requests and answers, and data in pieces
server    serves one store, with bounds on memory and connections
client    the store that workers have in its place
"""
