-- This deletes all buckets. The schema stays, because it may contain other tables.
DROP TABLE IF EXISTS {{schema}}.{{table}};
