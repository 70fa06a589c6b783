"""How much of its training set does your own network give away?"""
