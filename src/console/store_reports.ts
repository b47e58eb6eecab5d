/** What a running service and a refused start say about a store. */
import type { StoreSetting } from "../config/settings.ts";
import { RESCUE_RETRY_MS } from "../limits.ts";
import { OperatorError } from "../operator_error.ts";
import type { HealthReports } from "../store/health.ts";
import type { Rescued, RescueReports } from "../store/rescue.ts";
import type { Log } from "../telemetry/log.ts";
import { explain, nameOf, shellCommand } from "./failures.ts";

/** Logs what the operator needs to know about the store. */
export function reportsTo(
  log: Log,
  store: StoreSetting,
): HealthReports & RescueReports {
  const name = nameOf(store);
  return {
    storeFailing(error) {
      const next = error.problem === "lost"
        ? ": saving its plants: a kill or a second signal loses them"
        : "";
      const problem = explain(error, store);
      log.error("store failing", `the store fails: ${name}: ${problem}${next}`);
    },
    storeRecovered() {
      log.info("store recovered", "the store has recovered");
    },
    plantsSaved(rescued, plants, foreign) {
      const others = foreign === 0 ? "" : `, other entries lost: ${foreign}`;
      log.error(
        "plants saved",
        `saved all plants (${plants}) in ${rescued.path}${others}: stop the ` +
          `service, run this, and start it again: ${
            endOfRescue(rescued, name)
          }`,
      );
    },
    plantsNotSaved(error) {
      const retryS = RESCUE_RETRY_MS / 1000;
      log.error(
        "plants not saved",
        `cannot save the plants: ${error.message}: fix this while the ` +
          `service runs, which tries again every ${retryS} s`,
      );
    },
    plantsLost(error) {
      log.error(
        "plants lost",
        `cannot save the plants: ${error.message}: restore a backup`,
      );
    },
  };
}

/** Returns why a start is refused beside the plants of a lost store. */
export function rescuedFailure(rescued: Rescued, store: string): OperatorError {
  const { path, file } = rescued;
  const problem = file === path
    ? `its plants were saved in ${path}: run this command, and start again; ` +
      "if it cannot use the store, first move that away; if it refuses a line, " +
      "see the handbook"
    : `its plants are being saved in ${path}: wait until that has ended; if it ` +
      "was killed, run this command, and start again; if there is no store that " +
      "it can use, first restore a backup";
  return new OperatorError(
    `cannot start with ${store}: ${problem}: ${endOfRescue(rescued, store)}`,
  );
}

/** Returns the command that imports saved plants and renames their file. */
function endOfRescue({ path, file, imported }: Rescued, store: string): string {
  const rename = shellCommand("mv", path, imported);
  if (file === undefined) return rename;
  return `${
    shellCommand("plant-store", "import", file, "--kv", store)
  } && ${rename}`;
}
