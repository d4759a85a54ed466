-- The key of an account.
SELECT key FROM main."{{prefix}}accounts" WHERE id = ?1
