-- Appends entries.
INSERT INTO main."{{prefix}}entries" (account, at, seq, dated, part, kind, id, spend, currency, amount, spend_amount, asked, least, ttl,
    used, held, spends, expires, pending, becomes, tags, refused, credited)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
