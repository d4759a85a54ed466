-- A page of the accounts after the key ?2 whose keys start with ?1, in byte order: at most ?3.
SELECT key FROM main."{{prefix}}accounts" WHERE key > ?2 AND key >= ?1 AND substr(key, 1, length(?1)) = ?1 ORDER BY key LIMIT ?3
