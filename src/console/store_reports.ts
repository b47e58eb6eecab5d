import type { HealthReports } from "../store/health.ts";
import type { StoreLocation } from "../store/location.ts";
import type { Log } from "../telemetry/log.ts";
import { explain, nameOf } from "./failures.ts";

/** Logs what the operator needs to know about the store. */
export function reportsTo(log: Log, store: StoreLocation): HealthReports {
  return {
    storeFailing(error) {
      const problem = explain(error, store);
      log.error(
        "store failing",
        `the store fails: ${nameOf(store)}: ${problem}`,
      );
    },
    storeRecovered() {
      log.info("store recovered", "the store has recovered");
    },
  };
}
