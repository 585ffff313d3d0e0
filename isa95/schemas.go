package isa95

// Bases of type ids and data schemas. The host is github.com, not github.io.
const (
	jobControlSchemas = "https://aschamberger.github.com/schemas/UA/ISA95-JOBCONTROL_V2/v2.0.0/"
	jobsSchemas       = "https://aschamberger.github.com/schemas/UA/Machinery/Jobs/v1.0.1/"
	baseSchemas       = "https://aschamberger.github.com/schemas/UA/BaseModel/v1.05.06/"

	jobControlTypes = "org.opcfoundation.ISA95-JOBCONTROL_V2."
	jobsTypes       = "org.opcfoundation.Machinery.Jobs."
	configTypes     = "com.github.aschamberger.ISA95-JOBCONTROL_V2.config."
)

// Schemas of data types: `_dataschema` of stored documents.
const (
	SchemaJobOrder         = jobControlSchemas + "#/$defs/ISA95JobOrderDataType"
	SchemaJobOrderAndState = jobControlSchemas + "#/$defs/ISA95JobOrderAndStateDataType"
	SchemaJobResponse      = jobControlSchemas + "#/$defs/ISA95JobResponseDataType"
	SchemaState            = jobControlSchemas + "#/$defs/ISA95StateDataType"
	SchemaWorkMaster       = jobControlSchemas + "#/$defs/ISA95WorkMasterDataType"
	SchemaEquipment        = jobControlSchemas + "#/$defs/ISA95EquipmentDataType"
	SchemaPersonnel        = jobControlSchemas + "#/$defs/ISA95PersonnelDataType"
	SchemaPhysicalAsset    = jobControlSchemas + "#/$defs/ISA95PhysicalAssetDataType"
	SchemaMaterial         = jobControlSchemas + "#/$defs/ISA95MaterialDataType"
	SchemaParameter        = jobControlSchemas + "#/$defs/ISA95ParameterDataType"
	SchemaProperty         = jobControlSchemas + "#/$defs/ISA95PropertyDataType"

	SchemaEUInformation       = baseSchemas + "#/$defs/EUInformation"
	SchemaRelativePath        = baseSchemas + "#/$defs/RelativePath"
	SchemaRelativePathElement = baseSchemas + "#/$defs/RelativePathElement"
)

// The status event.
const (
	StatusEventType   = jobControlTypes + "ISA95JobOrderStatusEventType.v2"
	StatusEventSchema = jobControlSchemas + "#/$defs/ISA95JobOrderStatusEventType"
)
