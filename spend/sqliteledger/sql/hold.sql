-- Opens holds.
INSERT INTO main."{{prefix}}holds" (account, expires, spend) VALUES (?, ?, ?)
