"""Where moto differs from AWS, and the mend: one module for each service, each with one ``apply()``."""
