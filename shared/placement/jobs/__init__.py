"""The jobs that placement tracks: their life, what was granted and asked, what they hold."""
