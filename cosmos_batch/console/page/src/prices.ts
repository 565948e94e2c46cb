// How costs are shown. A local cloud costs nothing, so its page shows what AWS would charge in brackets.

import { createContext, useContext } from "react";
import { dollars } from "./format";

// Whether the page shows runs of a local cloud, whose prices are those that AWS would charge.
export const IsLocal = createContext(false);

// A function that says what has been spent.
export function useSpent(): (amount: number) => string {
  const isLocal = useContext(IsLocal);
  return (amount) => (isLocal ? `nothing (on AWS ${dollars(amount)})` : dollars(amount));
}
