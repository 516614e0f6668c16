"""The command line: ``main`` has the commands, the modules beside it do what they say."""
