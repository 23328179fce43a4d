//! The S-box of AES as a circuit of 34 products, four deep, and 82 sums.
//!
//! The outer layers are from J. Boyar and R. Peralta, "A new combinational logic minimization
//! technique with applications to cryptology" (SEA 2010). The inner layer is from their "A small
//! depth-16 circuit for the AES S-box" (SEC 2012): its depth is two products less, and it has two
//! more products. The four complements at the end are omitted, because the round keys here include
//! them.

use super::Gates;
use crate::Result;

/// A wire of several S-boxes, which are computed side by side.
type Wire<B> = Vec<B>;
/// The operands of a product.
type Pair<'a, B> = (&'a Wire<B>, &'a Wire<B>);

struct Boxes<'a, G: Gates>(&'a mut G);

impl<G: Gates> Boxes<'_, G> {
    fn xor(&mut self, a: &Wire<G::Bit>, b: &Wire<G::Bit>) -> Result<Wire<G::Bit>> {
        a.iter().zip(b).map(|(a, b)| self.0.xor(a, b)).collect()
    }

    /// Computes the products of one layer, of all boxes at once.
    fn and<const N: usize>(&mut self, pairs: [Pair<'_, G::Bit>; N]) -> Result<[Wire<G::Bit>; N]> {
        let bits: Vec<_> = pairs.iter().flat_map(|(a, b)| a.iter().zip(b.iter())).collect();
        let mut products = self.0.and(&bits)?.into_iter();
        Ok(pairs.map(|(a, _)| products.by_ref().take(a.len()).collect()))
    }
}

macro_rules! xor {
    ($boxes:ident: $($out:ident = $a:ident ^ $b:ident;)*) => {
        $(let $out = $boxes.xor(&$a, &$b)?;)*
    };
}

macro_rules! and {
    ($boxes:ident: $($out:ident = $a:ident & $b:ident;)*) => {
        let [$($out),*] = $boxes.and([$((&$a, &$b)),*])?;
    };
}

/// Returns `S(x) ^ 0x63` of each byte, whose bits are from the highest to the lowest.
pub(super) fn substitute<G: Gates>(
    gates: &mut G,
    bytes: &[[G::Bit; 8]],
) -> Result<Vec<[G::Bit; 8]>> {
    let wire = |bit: usize| bytes.iter().map(|byte| byte[bit].clone()).collect::<Wire<G::Bit>>();
    let [x0, x1, x2, x3, x4, x5, x6, x7] = [0, 1, 2, 3, 4, 5, 6, 7].map(wire);
    let mut boxes = Boxes(gates);
    xor! { boxes:
        y14 = x3 ^ x5; y13 = x0 ^ x6; y9 = x0 ^ x3; y8 = x0 ^ x5; t0 = x1 ^ x2; y1 = t0 ^ x7;
        y4 = y1 ^ x3; y12 = y13 ^ y14; y2 = y1 ^ x0; y5 = y1 ^ x6; y3 = y5 ^ y8; t1 = x4 ^ y12;
        y15 = t1 ^ x5; y20 = t1 ^ x1; y6 = y15 ^ x7; y10 = y15 ^ t0; y11 = y20 ^ y9; y7 = x7 ^ y11;
        y17 = y10 ^ y11; y19 = y10 ^ y8; y16 = t0 ^ y11; y21 = y13 ^ y16; y18 = x0 ^ y16;
    }
    and! { boxes:
        t2 = y12 & y15; t3 = y3 & y6; t5 = y4 & x7; t7 = y13 & y16; t8 = y5 & y1; t10 = y2 & y7;
        t12 = y9 & y11; t13 = y14 & y17; t15 = y8 & y10;
    }
    xor! { boxes:
        t4 = t3 ^ t2; t6 = t5 ^ t2; t9 = t8 ^ t7; t11 = t10 ^ t7; t14 = t13 ^ t12; t16 = t15 ^ t12;
        t17 = t4 ^ t14; t18 = t6 ^ t16; t19 = t9 ^ t14; t20 = t11 ^ t16;
        m20 = t17 ^ y20; m21 = t18 ^ y19; m22 = t19 ^ y21; m23 = t20 ^ y18;
    }
    // The inverse in the field of 16 elements.
    and! { boxes: m25 = m22 & m20; m31 = m20 & m23; m34 = m21 & m22; }
    xor! { boxes:
        m24 = m22 ^ m23; m26 = m21 ^ m25; m27 = m20 ^ m21; m28 = m23 ^ m25; m33 = m27 ^ m25;
        m36 = m24 ^ m25;
    }
    and! { boxes: m29 = m28 & m27; m30 = m26 & m24; m32 = m27 & m31; m35 = m24 & m34; }
    xor! { boxes:
        t29 = m21 ^ m29; t33 = m23 ^ m30; t37 = m35 ^ m36; t40 = m32 ^ m33;
        t41 = t40 ^ t37; t42 = t29 ^ t33; t43 = t29 ^ t40; t44 = t33 ^ t37; t45 = t42 ^ t41;
    }
    and! { boxes:
        z0 = t44 & y15; z1 = t37 & y6; z2 = t33 & x7; z3 = t43 & y16; z4 = t40 & y1; z5 = t29 & y7;
        z6 = t42 & y11; z7 = t45 & y17; z8 = t41 & y10; z9 = t44 & y12; z10 = t37 & y3;
        z11 = t33 & y4; z12 = t43 & y13; z13 = t40 & y5; z14 = t29 & y2; z15 = t42 & y9;
        z16 = t45 & y14; z17 = t41 & y8;
    }
    xor! { boxes:
        t46 = z15 ^ z16; t47 = z10 ^ z11; t48 = z5 ^ z13; t49 = z9 ^ z10; t50 = z2 ^ z12;
        t51 = z2 ^ z5; t52 = z7 ^ z8; t53 = z0 ^ z3; t54 = z6 ^ z7; t55 = z16 ^ z17; t56 = z12 ^ t48;
        t57 = t50 ^ t53; t58 = z4 ^ t46; t59 = z3 ^ t54; t60 = t46 ^ t57; t61 = z14 ^ t57;
        t62 = t52 ^ t58; t63 = t49 ^ t58; t64 = z4 ^ t59; t65 = t61 ^ t62; t66 = z1 ^ t63;
        t67 = t64 ^ t65;
        s0 = t59 ^ t63; s6 = t56 ^ t62; s7 = t48 ^ t60; s3 = t53 ^ t66; s4 = t51 ^ t66;
        s5 = t47 ^ t65; s1 = t64 ^ s3; s2 = t55 ^ t67;
    }
    let outputs = [s0, s1, s2, s3, s4, s5, s6, s7];
    let byte = |i: usize| outputs.each_ref().map(|wire| wire[i].clone());
    Ok((0..bytes.len()).map(byte).collect())
}
