"""Patches of moto: one module for each of moto's services, or several where one would be long. See ``registry``."""
