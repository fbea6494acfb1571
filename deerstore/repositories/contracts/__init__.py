"""What the repositories promise: their protocols and the models that go in and out."""
