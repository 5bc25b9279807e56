package verify_test

const childEnv = "DOCKET_VERIFY_CHILD"

func child() int { return 1 }
