package isa95

// Bases of type ids and data schemas. The host is github.com, not github.io.
const (
	jobControlSchemas = "https://aschamberger.github.com/schemas/UA/ISA95-JOBCONTROL_V2/v2.0.0/"
	jobsSchemas       = "https://aschamberger.github.com/schemas/UA/Machinery/Jobs/v1.0.1/"

	jobControlTypes = "org.opcfoundation.ISA95-JOBCONTROL_V2."
	jobsTypes       = "org.opcfoundation.Machinery.Jobs."
	configTypes     = "com.github.aschamberger.ISA95-JOBCONTROL_V2.config."
)

// Schemas of data types: `_dataschema` of stored documents.
const (
	SchemaJobOrderAndState = jobControlSchemas + "#/$defs/ISA95JobOrderAndStateDataType"
	SchemaJobResponse      = jobControlSchemas + "#/$defs/ISA95JobResponseDataType"
)

// The status event.
const (
	StatusEventType   = jobControlTypes + "ISA95JobOrderStatusEventType.v2"
	StatusEventSchema = jobControlSchemas + "#/$defs/ISA95JobOrderStatusEventType"
)
