package isa95

// ConfigKind is what a station configuration event is about.
type ConfigKind string

const (
	ConfigEquipment          ConfigKind = "equipment"          // body Equipment, key ID
	ConfigMaterialClass      ConfigKind = "materialclass"      // body Material, key MaterialClassID
	ConfigMaterialDefinition ConfigKind = "materialdefinition" // body Material, key MaterialDefinitionID
	ConfigPersonnel          ConfigKind = "personnel"          // body Personnel, key ID
	ConfigPhysicalAsset      ConfigKind = "physicalasset"      // body PhysicalAsset, key ID
	ConfigWorkMaster         ConfigKind = "workmaster"         // body WorkMaster, key ID
	ConfigJobAcceptance      ConfigKind = "jobacceptance"      // body JobAcceptance, no key
)

// ConfigKinds lists all kinds, in the order of the specification.
func ConfigKinds() []ConfigKind {
	return []ConfigKind{
		ConfigEquipment, ConfigMaterialClass, ConfigMaterialDefinition, ConfigPersonnel,
		ConfigPhysicalAsset, ConfigWorkMaster, ConfigJobAcceptance,
	}
}

// TypeID is the CloudEvent type of the configuration event. It is "" for a kind that does not exist.
func (k ConfigKind) TypeID() string {
	if configSchemas[k] == "" {
		return ""
	}
	return configTypes + string(k) + ".v1"
}

// Schema is the data schema of the configuration event. It is "" for a kind that does not exist.
func (k ConfigKind) Schema() string {
	name := configSchemas[k]
	if name == "" {
		return ""
	}
	return jobControlSchemas + "Config" + name + "/"
}

// ConfigByTypeID finds the kind of a configuration event by its CloudEvent type; ok is false when it is none.
func ConfigByTypeID(typeID string) (kind ConfigKind, ok bool) {
	kind, ok = configByTypeID[typeID]
	return kind, ok
}

// configSchemas are the names of the data schemas.
var configSchemas = map[ConfigKind]string{
	ConfigEquipment: "Equipment", ConfigMaterialClass: "MaterialClass", ConfigMaterialDefinition: "MaterialDefinition",
	ConfigPersonnel: "Personnel", ConfigPhysicalAsset: "PhysicalAsset", ConfigWorkMaster: "WorkMaster", ConfigJobAcceptance: "JobAcceptance",
}
