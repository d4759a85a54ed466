-- The largest id of an account.
SELECT coalesce(max(id), 0) FROM main."{{prefix}}accounts"
