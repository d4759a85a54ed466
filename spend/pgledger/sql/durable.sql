-- Has the commit of a transaction wait for the synchronous standby although the transaction has stored
-- nothing: the answer that it has read may be that of a commit whose wait was cancelled. The server waits
-- only for a transaction that has an ID and has logged something. So the message is transactional; without
-- that, or with an ID alone, the commit returns at once.
SELECT pg_logical_emit_message(true, 'brim'::text, ''::text)
