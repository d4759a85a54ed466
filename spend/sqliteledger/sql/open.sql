-- The open holds of the account ?1 after the expiry ?2 and the ID ?3: at most ?4.
SELECT expires, spend FROM main."{{prefix}}holds" WHERE account = ?1 AND (expires, spend) > (?2, ?3) ORDER BY expires, spend LIMIT ?4
