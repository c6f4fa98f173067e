"""The graph over HTTP: a door like the command line. It translates and holds no rule."""
