-- The first ?4 entries of the account ?1 after the number ?3, which was decided at ?2.
SELECT e.at, e.seq, coalesce(e.dated, e.at), coalesce(e.part, e.seq), e.kind, e.id, coalesce(e.spend, e.id), e.currency, e.amount,
    coalesce(e.spend_amount, e.amount), e.asked, e.least, e.ttl, e.used, e.held, e.spends, e.expires, e.pending, e.becomes,
    e.tags, e.refused, e.credited
FROM main."{{prefix}}entries" AS e WHERE e.account = ?1 AND e.at >= ?2 AND e.seq > ?3 ORDER BY e.at, e.seq LIMIT ?4
