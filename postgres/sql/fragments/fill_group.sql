-- fill_group()
--
-- Fills existing rows in try_many.sql and try_fast.sql; the parameters are theirs. EXCLUDED has
-- the group's number in pre: -1 means one amount, which EXCLUDED.level has. The sums of another
-- group stand in $8, and the longest prefix that fits goes in. pre keeps the level before it,
-- where the answers need it: RETURNING knows only the new row before PostgreSQL 18.
level = {{leaked(t, EXCLUDED.leak_rate, EXCLUDED.atime)}}
        + CASE WHEN EXCLUDED.pre = -1 THEN EXCLUDED.level ELSE (
              SELECT max(p)
              FROM unnest(($8::float8[])[($7::int4[])[(-1 - EXCLUDED.pre)::int4]
                                         : ($7::int4[])[(-EXCLUDED.pre)::int4] - 1]) AS p
              WHERE {{fits(t, EXCLUDED.leak_rate, EXCLUDED.atime, p, EXCLUDED.capacity)}}) END,
pre = CASE WHEN EXCLUDED.pre < -1 THEN {{leaked(t, EXCLUDED.leak_rate, EXCLUDED.atime)}} END,
atime = {{time_to_store(t, EXCLUDED.leak_rate, EXCLUDED.atime,
                        {{leaked(t, EXCLUDED.leak_rate, EXCLUDED.atime)}})}},
capacity = EXCLUDED.capacity,
leak_rate = EXCLUDED.leak_rate
WHERE {{usable(t, EXCLUDED.atime, $10)}}
  AND {{fits(t, EXCLUDED.leak_rate, EXCLUDED.atime,
             CASE WHEN EXCLUDED.pre = -1 THEN EXCLUDED.level
                  ELSE ($8::float8[])[($7::int4[])[(-1 - EXCLUDED.pre)::int4]] END,
             EXCLUDED.capacity)}}
