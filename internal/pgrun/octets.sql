-- octets(bytes)
--
-- Bytes in hexadecimal digits, for Octets. In the text format, bytea_output would change the form of
-- the bytes themselves.
encode({bytes}, 'hex'::text)
