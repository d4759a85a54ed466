-- Gives an account another key.
UPDATE main."{{prefix}}accounts" SET key = ?2 WHERE id = ?1
