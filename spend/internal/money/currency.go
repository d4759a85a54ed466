package money

import "strings"

// Places returns the number of decimal places of a currency's minor unit, or those of its scale. It
// returns false for a code that is not on the list, and for a code without a minor unit.
func Places(code string) (places int, ok bool) {
	iso, scale, scaled := strings.Cut(code, ":")
	places, ok = isoPlaces(iso)
	if !ok || !scaled {
		return places, ok
	}
	if len(scale) != 1 || scale[0] > '0'+maxScale || int(scale[0])-'0' <= places {
		return 0, false
	}
	return int(scale[0] - '0'), true
}

// maxScale is the largest number of decimal places. An int64 counts 9.2 thousand million units of a
// currency with it.
const maxScale = 9

func isoPlaces(code string) (places int, ok bool) {
	for places, codes := range minorUnits {
		for rest := codes; len(rest) >= 3; rest = rest[min(4, len(rest)):] {
			if rest[:3] == code {
				return places, true
			}
		}
	}
	return 0, false
}

// ISO returns the code without its scale.
func ISO(code string) string {
	iso, _, _ := strings.Cut(code, ":")
	return iso
}

// minorUnits lists the codes of ISO 4217 by the number of their decimal places.
// The source is list one of the standard's maintenance agency, SIX Financial
// Information, as published on 2026-01-01. It includes active codes and funds
// codes with a minor unit. A withdrawn code stays in the list, because old
// entries of ledgers contain it.
var minorUnits = [...]string{
	0: "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF",
	1: "",
	2: "AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BMD BND BOB BOV BRL BSD BTN BWP BYN BZD CAD CDF CHE CHF CHW CNY COP COU " +
		"CRC CUP CVE CZK DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GTQ GYD HKD HNL HTG HUF IDR ILS INR IRR JMD KES " +
		"KGS KHR KPW KYD KZT LAK LBP LKR LRD LSL MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MXV MYR MZN NAD NGN NIO NOK NPR " +
		"NZD PAB PEN PGK PHP PKR PLN QAR RON RSD RUB SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TOP " +
		"TRY TTD TWD TZS UAH USD USN UYU UZS VED VES WST XAD XCD XCG YER ZAR ZMW ZWG " +
		"ANG BGN CUC", // withdrawn in 2025 and 2026
	3: "BHD IQD JOD KWD LYD OMR TND",
	4: "CLF UYW",
}
