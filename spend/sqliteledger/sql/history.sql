-- A page of the account with the key ?1, newest first, below the entry (?2, ?3): ?4 entries.
SELECT e.at, e.seq, coalesce(e.dated, e.at), coalesce(e.part, e.seq), e.kind, e.id, coalesce(e.spend, e.id), e.currency, e.amount,
    coalesce(e.spend_amount, e.amount), e.asked, e.least, e.ttl, e.used, e.held, e.spends, e.expires, e.pending, e.becomes,
    e.tags, e.refused, e.credited
FROM main."{{prefix}}entries" AS e
WHERE e.account = (SELECT a.id FROM main."{{prefix}}accounts" AS a WHERE a.key = ?1) AND (e.at, e.seq) < (?2, ?3)
ORDER BY e.at DESC, e.seq DESC LIMIT ?4
