-- Stores answers. A cancellation replaces one.
INSERT INTO main."{{prefix}}requests" (id, at, account, also, content, answer, spend) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET at = excluded.at, account = excluded.account, also = excluded.also,
    content = excluded.content, answer = excluded.answer, spend = excluded.spend
