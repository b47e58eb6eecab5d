export { canMount, SmallDisk } from "./temporary.ts";
