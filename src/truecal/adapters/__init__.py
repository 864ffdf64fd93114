"""Other people's frameworks, one thin file each: their objects in, public names called, no formula of its own."""
