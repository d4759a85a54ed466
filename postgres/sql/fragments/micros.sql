-- micros(time)
--
-- A time as a double in microseconds since the Unix epoch, which holds every time up to 2255 exactly.
-- date_part can be off in its last bit.
round(date_part('epoch'::text, {time}) * 1e6::float8)
