"""`cclm serve`: trained models as an HTTP service with a page; concurrent requests are translated in batches."""
