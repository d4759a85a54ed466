-- The replicas for which no commit waits, quoted as synchronous_standby_names needs it, and the number
-- of replicas of which the user may not see that. A backup is no replica.
SELECT COALESCE(array_agg(quote_ident(r.application_name) ORDER BY r.application_name) FILTER (WHERE r.sync_state = 'async'::text), '{}'::text[]),
       count(*) FILTER (WHERE r.sync_state IS NULL)
FROM (SELECT DISTINCT s.application_name::text AS application_name, s.sync_state::text AS sync_state
      FROM pg_catalog.pg_stat_replication AS s
      WHERE s.state IS NULL OR s.state = ANY ('{streaming,catchup}'::text[])) AS r
