-- instant(time)
--
-- The microseconds of a timestamptz in hexadecimal digits, for Instant. In the text format, DateStyle
-- and TimeZone would change the form of the time itself.
encode(timestamptz_send({time}), 'hex'::text)
