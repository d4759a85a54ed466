-- All buckets are gone after this. The schema stays: it may hold other things.
DROP TABLE IF EXISTS {{schema}}.{{table}};
