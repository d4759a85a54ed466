-- A page of the rules of the budget ?1, newest first, below the seq ?2: ?3 rows. They come without their text
-- if their digest is ?4.
SELECT seq, revision, at, held, author, reason, digest, CASE WHEN digest IS NOT ?4 THEN rules END FROM main."{{prefix}}rules"
WHERE budget = ?1 AND seq < ?2 ORDER BY seq DESC LIMIT ?3
