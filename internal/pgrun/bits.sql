-- bits(double)
--
-- The bits of a double in hexadecimal digits, for Double. In the text format, which some modes of the
-- driver use, extra_float_digits would round the double itself.
encode(float8send({double}), 'hex'::text)
