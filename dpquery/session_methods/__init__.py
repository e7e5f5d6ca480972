"""What sessions are asked beside SQL: queries by methods, forecasts, the catalog, a stream."""
