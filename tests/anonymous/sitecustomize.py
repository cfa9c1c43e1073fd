"""On the path of worker processes in tests: Beam asks nobody for credentials.

Without it every process looks for a metadata server, four times, with growing pauses.
"""

from apache_beam.internal.gcp import auth

auth._Credentials._credentials_init = True
